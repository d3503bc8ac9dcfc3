//go:build race

package main

// raceEnabled: the runner's own races show in the scenarios without a cluster, which take less of a slow machine.
const raceEnabled = true
