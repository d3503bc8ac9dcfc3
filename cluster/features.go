package cluster

import (
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/raftlog"
)

// levels are the feature levels of the clusters that this build can be part of, from
// level 1 on. Each lists the formats that nodes may write. The cluster's level rises when
// every member can read the next one (see raftlog.Config.Features).
//
// To add a format, such as a kind of record, raise the newest version of the format that
// contains it, and add a level. A build reads every version that it knows, and writes
// those that the level permits. A level of a release is never changed or removed. Until
// the first release, formats change in place at level 1, and data of older builds is
// refused.
var levels = []struct {
	log   raftlog.Formats
	state effects.Formats
}{
	{raftlog.Formats{Entry: 2, Snapshot: 2}, effects.Formats{Effects: 1}},
}

// FeatureLevel returns the highest level that this build can read and write.
func FeatureLevel() int { return len(levels) }

// features returns the formats of the log at each level.
func features() []raftlog.Formats {
	list := make([]raftlog.Formats, len(levels))
	for i := range levels {
		list[i] = levels[i].log
	}
	return list
}
