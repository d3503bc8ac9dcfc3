// Command mutate breaks the sources on purpose, one edit at a time, and checks
// that a named test fails for each: a promise whose test cannot fail is none.
//
//	go run ./mutate -only fsm
//	go run ./mutate -sample 6 -seed 7
//	go run ./mutate
//
// The edits are in lists, one file for each package of the sources. The working
// tree is not touched: go test -overlay builds each mutant beside it.
//
// Every mutant must be killed. One that survives, does not compile, or names a
// test that fails or does not exist without it, is an error, and so is an edit
// whose text is not found exactly once: the lists follow the code. The exit
// status is 1 if there was an error, and 2 if nothing could be run.
//
// It is a program and not a test, since a run of all takes minutes and builds
// test binaries of other packages. Its room is beside bench and faults, which
// hold Headgate to its promises from outside as well.
package main
