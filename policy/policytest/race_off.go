//go:build !race

package policytest

const RaceEnabled = false
