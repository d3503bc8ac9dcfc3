package policy

import "math"

// Bounds of the grammar.
const (
	// MaxPolicies is how many policies a set may have.
	MaxPolicies = 10_000
	// MaxLimits is how many limits a policy may have.
	MaxLimits = 16
	// MaxBy is how many parts the `by` of a limit may have.
	MaxBy = 4
	// MaxAttributes is how many attributes a policy may use, and how many a call may
	// have.
	MaxAttributes = 32
	// MaxName is the length of a policy's name, in bytes.
	MaxName = 64
	// MaxWord is the longest name of an attribute, a limit or a list, in bytes.
	MaxWord = 32
	// MaxValue is the length of an attribute's value in a call, in bytes.
	MaxValue = 4 << 10
)

// MaxUnits bounds amounts and costs, so that two of them can be added.
const MaxUnits = math.MaxInt64 / 2
