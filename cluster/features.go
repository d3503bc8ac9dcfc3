package cluster

import (
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/raftlog"
)

// levels are the feature levels of a cluster that this build can be part of,
// from level 1 on: what each permits the nodes to write. The cluster's level
// rises when every member can read the next one (see raftlog.Config.Features),
// and until then nothing newer is written.
//
// A new format, such as a kind of record, is a new version of what it is
// written in, which is read as soon as it is known and written where the level
// permits it: raise the newest version there, and add a level. A level of a
// release is never changed and never taken away. Until the first release, formats
// change in place at level 1, and data of older builds are refused.
var levels = []struct {
	log   raftlog.Formats
	state effects.Formats
}{
	{raftlog.Formats{Entry: 2, Snapshot: 2}, effects.Formats{Effects: 1}},
}

// features are the levels as the log has to know them.
func features() []raftlog.Formats {
	list := make([]raftlog.Formats, len(levels))
	for i := range levels {
		list[i] = levels[i].log
	}
	return list
}
