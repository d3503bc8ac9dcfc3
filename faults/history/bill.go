package history

// Bill is one call that a client makes until it is answered, on whatever node, under
// one name, and, if it holds, its settlement. Times are as in Call.
type Bill struct {
	User       string
	Name       string // of the call, or what its hold is called
	Start, End int64

	// Outcome is Admitted or Denied by the first answer. It is Unknown if there was
	// none, or a denial after a try that may still be executed.
	Outcome Outcome
	Cost    int32

	// Holds: the call was a reservation. Settled is Admitted once the settlement is
	// answered, Refused if none was sent, and the call costs Final then.
	Holds   bool
	Settled Outcome
	Final   int32

	// Retried: the call, or its settlement, was made again after a try that nobody knows
	// the end of.
	Retried bool

	// Answers is how often it was answered, settlements included, and Differs an answer
	// that says something else than the first one.
	Answers int
	Differs string
}

// Least and Most are what the bill may have charged in the end.
func (b *Bill) Least() int64 {
	switch {
	case b.Outcome != Admitted:
		return 0
	case !b.Holds || b.Settled == Refused:
		return int64(b.Cost)
	case b.Settled == Admitted:
		return int64(b.Final)
	}
	return int64(min(b.Cost, b.Final))
}

// Most is the other bound: see Least.
func (b *Bill) Most() int64 {
	switch {
	case b.Outcome == Denied || b.Outcome == Refused:
		return 0
	case !b.Holds || b.Settled == Refused:
		return int64(b.Cost)
	case b.Outcome == Admitted && b.Settled == Admitted:
		return int64(b.Final)
	}
	return int64(max(b.Cost, b.Final))
}
