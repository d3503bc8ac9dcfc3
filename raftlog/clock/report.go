package clock

import "time"

// Agreement is how near to each other clocks must be to agree, in ns. It is
// also what a leader slews.
const Agreement = int64(time.Second)

// Report is what a node knows of the cluster clock, for a new leader that has
// not kept it. Times are in unix ns.
type Report struct {
	// Kept: the node has heard a leader since its machine was booted. Now is
	// then what the cluster clock is at least, by the clock of the leader of
	// Term.
	Kept bool   `json:"kept"`
	Term uint64 `json:"term,omitempty"`
	Now  int64  `json:"now,omitempty"`

	// Saved: the node saved the clock when its wall clock was SavedWall and the
	// cluster clock Offset ahead of it. Wall is its wall clock now.
	Saved     bool  `json:"saved"`
	Offset    int64 `json:"offset,omitempty"`
	SavedWall int64 `json:"saved_wall,omitempty"`
	Wall      int64 `json:"wall"`
}

// Later is the report with d more on each clock that runs.
func (r Report) Later(d int64) Report {
	r.Now += d
	r.Wall += d
	return r
}

// Resume finds the cluster clock from the reports of the voters that answered,
// and the last value in the log.
//
//   - If a report has kept the clock of the latest leader that any voter has
//     heard, that report counts. Of several, the latest time counts: each report
//     is a lower bound.
//   - Else all that answered have been booted since, and an hour without power
//     looks like an hour by which a wall clock was put right. Wall time counts
//     only by a majority of all voters, within Agreement: their wall clocks
//     differed equally from the cluster clock when they saved it, and give the
//     same cluster clock now. So the wall clocks that were right agree, and one
//     that was wrong, or has been set since, does not count. Of them the
//     earliest counts.
//   - The only voter of a cluster has nobody to agree with. Its wall clock
//     counts if the cluster clock was within Agreement of it, and so had been
//     slewed to it.
//   - A clock that was set back does not count: one that is before its saved
//     value or before the log.
func Resume(reports []Report, voters int, last int64) (clock int64, known bool) {
	var kept *Report
	for i := range reports {
		r := &reports[i]
		if r.Kept && (kept == nil || r.Term > kept.Term || r.Term == kept.Term && r.Now > kept.Now) {
			kept = r
		}
	}
	if kept != nil {
		return max(last, kept.Now), true
	}
	var able []Report
	for _, r := range reports {
		if r.Saved && r.Wall >= r.SavedWall && r.Wall+r.Offset >= last {
			able = append(able, r)
		}
	}
	if voters == 1 {
		if len(able) == 1 && max(able[0].Offset, -able[0].Offset) <= Agreement {
			return able[0].Wall + able[0].Offset, true
		}
		return last, false
	}
	most := voters / 2 // no majority
	for _, a := range able {
		for _, b := range able {
			earliest, count := b.Wall+b.Offset, 0
			for _, r := range able {
				if within := func(d int64) bool { return 0 <= d && d <= Agreement }; within(r.Offset-a.Offset) && within(r.Wall+r.Offset-earliest) {
					count++
				}
			}
			if count > most || count == most && known && earliest < clock {
				clock, known, most = earliest, true, count
			}
		}
	}
	if !known {
		return last, false
	}
	return clock, true
}
