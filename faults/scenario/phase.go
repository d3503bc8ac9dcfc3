package scenario

import "time"

// phase is a part of a run.
type phase struct {
	name     string
	from, to int64
}

// latencies are those of the calls to the nodes that counts selects which were due in a phase and were decided.
func (r *Run) latencies(p phase, counts func(node uint8) bool) (ds []time.Duration) {
	for i := range r.history.Calls {
		if c := &r.history.Calls[i]; counts(c.Node) && c.Due >= p.from && c.Due < p.to && c.Decided() {
			ds = append(ds, c.Latency())
		}
	}
	return ds
}
