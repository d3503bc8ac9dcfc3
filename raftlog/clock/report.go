package clock

import "time"

// Agreement is how much two clocks may differ and still agree, in ns. A leader corrects a
// gap of up to this size slowly, without a jump.
const Agreement = int64(time.Second)

// Report is what a node knows of the cluster clock, for a new leader that does not know
// the time itself. Times are in unix ns.
type Report struct {
	// Kept reports that the node has heard a leader since its machine booted. Now is then
	// a lower bound of the clock of the last such leader, whose term is Term.
	Kept bool   `json:"kept"`
	Term uint64 `json:"term,omitempty"`
	Now  int64  `json:"now,omitempty"`

	// Saved reports that the node has a saved clock. When the node's wall clock was at
	// SavedWall, the cluster clock was ahead of the wall clock by Offset. Wall is the
	// node's wall clock now.
	Saved     bool  `json:"saved"`
	Offset    int64 `json:"offset,omitempty"`
	SavedWall int64 `json:"saved_wall,omitempty"`
	Wall      int64 `json:"wall"`
}

// Later returns the report after d ns more have passed on each running clock.
func (r Report) Later(d int64) Report {
	r.Now += d
	r.Wall += d
	return r
}

// Resume finds the cluster clock from the reports of the voters that answered. The
// parameter last is the clock of the last entry in the log. Resume uses the first of
// these rules that applies:
//
//   - At least one voter has heard a leader since its machine booted (Report.Kept). Then
//     the voter's time Now is the clock. If there are several such voters, the latest
//     term counts. Within that term the latest Now counts, because each Now is a lower
//     bound of the clock.
//   - A majority of all voters agrees on two values, to within Agreement. The first
//     value is the saved offset: by how much the cluster clock was ahead of the wall
//     clock. The second is the voter's wall clock plus that offset. Then the earliest of
//     these sums is the clock. A majority is needed because one voter alone cannot
//     distinguish an hour without power from a wall clock that was set forward by an
//     hour.
//   - The cluster has only one voter, and its saved offset is at most Agreement. Then
//     its wall clock plus that offset is the clock. So small an offset shows that the
//     cluster clock had followed the wall clock.
//
// The second and third rule ignore a voter whose wall clock was set back. A wall clock
// was set back if it is earlier than SavedWall, or if wall clock plus offset is earlier
// than last. If no rule applies, Resume returns last, and false for known.
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
