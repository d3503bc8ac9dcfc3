//go:build race

package member

func init() { underRace = true }
