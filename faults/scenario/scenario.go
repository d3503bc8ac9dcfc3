package scenario

import "slices"

// Scenario is one way to harm a cluster.
type Scenario struct {
	Name   string
	Doc    string   // what is done, and what must hold
	Modes  []string // of durability, that it is run in
	Rounds int      // how often the harm is done, by default
	Rate   float64  // calls per second, by default

	// Broken: the system under test is broken on purpose, and the checks must say so.
	Broken bool

	run func(*Run) error
}

func (s *Scenario) supports(mode string) bool { return slices.Contains(s.Modes, mode) }

var both = []string{Async, Sync}

// All are the scenarios, in the order of the report.
var All = []Scenario{
	{
		Name: "calm", Modes: []string{Sync}, Rate: 2000, run: calm,
		Doc: "One server without replication, and no harm: the checks must find nothing.",
	},
	{
		Name: "switchover", Modes: []string{Sync}, Rounds: 2, Rate: 2000, Broken: true, run: switchover,
		Doc: "Three independent servers, of which clients use the first that lives, instead of a cluster: budgets are handed out twice, and the checks must see it.",
	},
}

// Find returns the scenario of that name, or nil.
func Find(name string) *Scenario {
	for i := range All {
		if All[i].Name == name {
			return &All[i]
		}
	}
	return nil
}
