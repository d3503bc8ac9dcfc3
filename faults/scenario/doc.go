// Package scenario holds the fault scenarios: each starts real nodes, offers them calls, does harm, and has the oracle
// judge what the clients saw.
//
// A scenario is a row of All, in scenario.go, and a function in the file of its kind of harm. It starts nodes and changes
// what becomes of them by harness.go, has a load planned by workload.go, mixed.go or data.go, and takes the course of
// course.go: rounds of harm, an end, and a comparison of the nodes' tables. run.go judges the history, with what liveness.go,
// marks.go, pairs.go and phase.go have measured, and report.go tells the verdict.
package scenario
