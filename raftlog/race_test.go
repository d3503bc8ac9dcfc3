//go:build race

package raftlog

func init() { underRace = true }
