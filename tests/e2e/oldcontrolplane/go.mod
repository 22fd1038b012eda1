// Marks this folder as a Go module of its own; the versions of each minor are in minors/MINOR.mod.
module oldcontrolplane

go 1.22
