//go:build race

package main

// raceFlags build the program under test as the tests themselves are built.
var raceFlags = []string{"-race"}
