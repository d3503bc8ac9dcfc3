//go:build race

package policytest

// raceEnabled: the race detector makes everything many times slower.
const RaceEnabled = true
