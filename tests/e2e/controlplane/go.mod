// Marks this folder as a Go module; the versions of each minor are in minors/MINOR.mod (go build -modfile).
module controlplane

go 1.24.0
