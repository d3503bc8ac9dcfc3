package policies

import (
	"strings"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/events"
)

// tell posts events about a batch that was taken over. set is the set after it.
func (b *Book) tell(bt *batch, set *policy.Set) {
	routes := false
	for i := range bt.news {
		r := &bt.news[i]
		if r.Name == fileRecord {
			b.warnOfFile(r.was, r.Value)
		}
		routes = routes || policy.KindOf(r.Name) == policy.RoutesRecord
	}
	if routes && b.noGateways {
		b.warnOfRoutes(set)
	}
	if !bt.anew {
		b.tellChanges(bt.news)
	}
}

// toldChanges is the most changes of one batch that get an event each. If there are more,
// one event shows their number.
const toldChanges = 100

// tellChanges posts events about changed policies and changed records that policies share.
func (b *Book) tellChanges(news []heard) {
	var changed []heard
	for _, r := range news {
		if !strings.HasPrefix(r.Name, internalPrefix) {
			changed = append(changed, r)
		}
	}
	if len(changed) > toldChanges {
		st, _ := decodeStored(changed[0].Value)
		b.events.Post(events.Event{At: st.At, Type: events.Policy, Author: st.Author, Count: uint64(len(changed))})
		return
	}
	for _, r := range changed {
		st, err := decodeStored(r.Value)
		if err != nil { // breaks has logged it
			continue
		}
		e := events.Event{At: st.At, Type: events.Policy, Policy: r.Name, Version: st.Version, Author: st.Author, Deleted: st.Gone}
		if !isPolicy(r.Name) {
			e.Policy, e.Change = "", r.Name
		}
		b.events.Post(e)
	}
}
