// Command mutate breaks the sources on purpose, one edit at a time, and checks that a
// named test fails for each. A promise whose test cannot fail is none.
//
//	go run ./mutate                  # all, from the root of the module
//	go run ./mutate -sample 6        # a few, others each day
//	go run ./mutate -only raftlog    # those whose package, place or promise has the word
//	go run ./mutate -check           # run none: which edits have lost their place?
//
// There is a list of edits for each kind of promise, in lists. An edit names a part of a
// function, method, constant, variable or type. A change elsewhere breaks no edit, nor
// does a move to another file or a line break. An … in the part stands for any one token,
// such as a name that may change. The working tree is not touched: go test -overlay
// builds each mutant beside it.
//
// Every mutant must be killed. A mutant that survives or does not compile is an
// error when its turn comes. So is an edit without its place in the sources, and
// one whose test is missing or fails without it. The exit status is then 1.
//
// The lists have some 150 edits, for the promises that matter most. Add one for a
// new promise of that kind, and take out another that it resembles.
//
// It is a program and not a test, since a run of all takes minutes and builds
// test binaries of other packages. Its room is beside bench and faults, which
// hold Headgate to its promises from outside as well.
package main
