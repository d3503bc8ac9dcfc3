// Package scenario holds the fault scenarios: each starts real nodes, offers them calls, does harm, and has the oracle
// judge what the clients saw.
//
// A scenario is a row of All, in scenario.go, and a function in the file of its kind of harm. It starts and harms nodes
// by harness.go, and has a load planned by workload.go, mixed.go or data.go. It takes the course of course.go: rounds
// of harm, an end, and a comparison of the nodes' tables. run.go judges the history, with the measurements of
// liveness.go, marks.go, pairs.go and phase.go. report.go writes the verdict.
package scenario
