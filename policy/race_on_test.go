//go:build race

package policy

// raceEnabled: the race detector makes everything many times slower.
const raceEnabled = true
