package oracle

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/raftlog"
)

// Owners checks that every effect of a key is in the group that owns the key's slot. The counters and strikes of a policy
// are in the group that owns the slot of the policy's home: an attribute that is in all keys of the policy. The oracle does
// not know which one. So it checks that one attribute explains the groups of all keys. A second attribute, or the policy's
// name, may explain the limits that do not count by the first. The counters of a policy without a home are in group 0. Holds are in the group of the slot in their names, or in group 0. Group 0 also has the records of
// policies and scripts.
type Owners struct {
	groups int
	f      Finding

	payloads, effects int
	owned             map[int]int     // effects, by group
	told              map[string]bool // keys of violations: one says it for all nodes and effects
	// homes has the attributes that can be the homes of limits, by `policy:limit`. "" is group 0, and ownName is the name of
	// the policy.
	homes  map[string][]string
	reader effects.Reader
}

// NewOwners returns the check for a cluster of a number of groups.
func NewOwners(groups int) *Owners {
	return &Owners{groups: groups, f: Finding{Check: "owners", OK: true}, owned: make(map[int]int), told: make(map[string]bool), homes: make(map[string][]string)}
}

// Payload reads a payload of effects from a group's log or snapshot at a node. An error is returned for a payload that this
// build cannot read.
func (o *Owners) Payload(node string, group int, payload []byte) error {
	o.payloads++
	if err := o.reader.Open(payload); err != nil {
		return err
	}
	in := inPayload{o: o, node: node, group: group}
	for o.reader.More() {
		var e effects.Effect
		ok, err := o.reader.Next(&e, &in)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		o.effects++
		o.owned[group]++
		kind, absent := algo.Counter, e.Limit < 0
		if !absent {
			kind = in.kinds[e.Limit]
		}
		if owner := o.owner(e.Image.Space, e.Image.Key, kind, absent, group); owner != group && !o.told[string(e.Image.Key)] {
			o.told[string(e.Image.Key)] = true
			o.f.violate("%s: group %d has an effect on %q (space %d, %v), which is group %d's", node, group, e.Image.Key, e.Image.Space, kind, owner)
		}
		o.reader.Recycle()
	}
	return nil
}

// owner returns the group that owns a key of a space, -1 for a group that the cluster does not have. An absent key has no
// kind. If it is named like a policy's counter, it may be one.
func (o *Owners) owner(space uint8, key []byte, kind algo.Algorithm, absent bool, group int) int {
	if group >= o.groups {
		return -1
	}
	counter := kind.IsPolicy()
	switch space {
	case algo.HoldSpace:
		return o.ownerOfHold(key)
	case algo.OffenceSpace:
		counter = true
	case algo.BlockSpace:
		d := effects.Decoder{B: key}
		key = d.Short() // the counter's
		absent = true
	case algo.LeaseSpace:
		absent = true // its kind does not say what its counter is
	}
	if counter {
		return o.ownerOfCounter(key, group, !absent)
	}
	owner := partition.GroupOf(slotOf(key), o.groups)
	if absent && owner != group {
		if _, _, _, ok := policy.ParseKey(key); ok {
			return o.ownerOfCounter(key, group, false)
		}
	}
	return owner
}

// ownerOfHold returns the group of a hold: of the slot after its id, or group 0.
func (o *Owners) ownerOfHold(key []byte) int {
	parts := strings.Split(string(key), ";")
	if len(parts) < 3 {
		return 0
	}
	slot, err := strconv.ParseUint(parts[2], 10, 16)
	if err != nil || slot >= partition.HashSlots {
		return -1
	}
	return partition.GroupOf(uint16(slot), o.groups)
}

// ownerOfCounter returns group if an attribute can be the home of the counter's policy that says so, else a group that would
// be right. certain reports that the key is a counter; attributes that do not explain its group cannot be the home then.
func (o *Owners) ownerOfCounter(key []byte, group int, certain bool) int {
	name, id, pairs, ok := policy.ParseKey(key)
	if !ok {
		return 0 // a counter of descriptors
	}
	limit := name + ":" + id
	known, seen := o.homes[limit]
	var fit []string
	owner := 0
	pairs = append(pairs, policy.Pair{})
	if len(pairs) == 1 {
		pairs = append(pairs, policy.Pair{Name: ownName, Value: name})
	}
	for _, pair := range pairs {
		if seen && !slices.Contains(known, pair.Name) {
			continue
		}
		of, any := o.homeOf(&pair)
		if any || of == group {
			fit = append(fit, pair.Name)
		} else {
			owner = of
		}
	}
	if len(fit) == 0 {
		return owner
	}
	if certain {
		o.homes[limit] = fit
	}
	return group
}

// ownName stands for the name of a policy, which no attribute has.
const ownName = "@"

// spread returns the policies whose limits need more than a home and one other group.
func (o *Owners) spread() (names []string) {
	limits := make(map[string][][]string) // by policy
	for limit, homes := range o.homes {
		name, _, _ := strings.Cut(limit, ":")
		limits[name] = append(limits[name], homes)
	}
	for name, each := range limits {
		explains := func(home, ceiling string) bool {
			return !slices.ContainsFunc(each, func(homes []string) bool {
				return !slices.Contains(homes, home) && (home == "" || ceiling == "" || !slices.Contains(homes, ceiling))
			})
		}
		all := slices.Concat(each...)
		if !slices.ContainsFunc(all, func(home string) bool {
			return slices.ContainsFunc(all, func(ceiling string) bool { return explains(home, ceiling) })
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// homeOf returns the group of callers with an attribute, if it is their home. The pair without a name is no home. any
// reports that it may be any group: addresses may be cut to networks, and the key does not say to which.
func (o *Owners) homeOf(pair *policy.Pair) (group int, any bool) {
	if pair.Name == "" {
		return 0, false
	}
	text := []byte(pair.Value)
	if !pair.Hashed {
		address, _, _ := strings.Cut(pair.Value, "/")
		if _, err := netip.ParseAddr(address); err == nil {
			return 0, true
		}
		text = policy.AppendEscaped(nil, text)
	}
	return partition.GroupOf(slotOf(text), o.groups), false
}

// Finding returns the result. unread is what could not be read, or nil. Only newer formats, of another build, are no fault.
func (o *Owners) Finding(unread error) Finding {
	f := o.f
	f.Text = fmt.Sprintf("%d effects in %d payloads of %d of %d groups", o.effects, o.payloads, len(o.owned), o.groups)
	if unread != nil {
		first, _, _ := strings.Cut(unread.Error(), "\n")
		f.Text += "; not read: " + first
		if !errors.Is(unread, effects.ErrEffects) && !errors.Is(unread, raftlog.ErrVersion) {
			f.violate("%s", first)
		}
	}
	if o.effects == 0 {
		f.violate("nothing was read")
	}
	for _, name := range o.spread() {
		f.violate("the counters of policy %s have no home, or need more than two groups: %v", name, o.homes)
	}
	return f
}

// inPayload receives the records of a payload that are not states of keys.
type inPayload struct {
	o     *Owners
	node  string
	group int
	kinds []algo.Algorithm
}

func (p *inPayload) AddLimit(l algo.Limit) { p.kinds = append(p.kinds, l.Algorithm) }
func (p *inPayload) Flush()                {}
func (p *inPayload) Included(int64)        {}

// confirmedRecord is the record of the last change of policies that a group has confirmed.
const confirmedRecord = "~number"

// SetSystem checks a system record. Each group records what it was charged.
func (p *inPayload) SetSystem(k effects.SystemKey, _ []byte) {
	p.o.effects++
	p.o.owned[p.group]++
	confirms := k.Kind == effects.SystemPolicy && k.Name == confirmedRecord // by its own group
	if k.Kind != effects.SystemCharged && !confirms && p.group != 0 {
		p.o.f.violate("%s: group %d has the system record %q of kind %d, which is group 0's", p.node, p.group, k.Name, k.Kind)
	}
}

// GroupOf returns the group of a key.
func GroupOf(key string, groups int) int { return partition.GroupOf(slotOf([]byte(key)), groups) }

// slotOf returns a key's hash slot, computed apart from the server: CRC16 (XMODEM) of the hash tag, or of the key.
func slotOf(key []byte) uint16 {
	if _, tag, found := bytes.Cut(key, []byte("{")); found {
		if tag, _, found = bytes.Cut(tag, []byte("}")); found && len(tag) > 0 {
			key = tag
		}
	}
	var crc uint16
	for _, b := range key {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc>>15 == 1 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % partition.HashSlots
}
