package cluster

import (
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/raftlog"
)

// levels holds the feature levels that this build supports, beginning with level 1. A
// cluster has one feature level, which lists the formats that its nodes may write. The
// cluster's level rises when every member can read the formats of the next level (see
// raftlog.Config.Features).
//
// To add something to a format, such as a kind of record, raise the format's newest version
// and add a level. A build reads every version that it knows, and writes the versions that
// the level permits. A level of a release is never changed or removed. Until the first
// release, formats change without a new level, and a build refuses data of older builds.
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
