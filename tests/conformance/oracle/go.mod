// Marks this folder as a Go module; the versions of each minor are in minors/MINOR.mod (go build -modfile).
module rebalancer/oracle

go 1.22.0
