package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/raftlog"
)

// Setting is a parameter that should have the same value on all nodes of a cluster. Nodes
// send each other only a digest of a secret value.
type Setting struct {
	Name, Value string
	Secret      bool
}

// metaSetting precedes the names of settings in a node's metadata.
const metaSetting = "setting."

// digestBytes is how many bytes of a secret's digest are sent. It is enough to see that two
// secrets differ, and too little to confirm a guess.
const digestBytes = 4

// noSecret is sent for an empty secret.
const noSecret = "none"

// told returns what the node sends about a setting. For a secret it is "" until there is a
// cluster, because the cluster's id is the key of the digest.
func (s Setting) told(clusterID string) string {
	switch {
	case !s.Secret:
		return s.Value
	case s.Value == "":
		return noSecret
	case clusterID == "":
		return ""
	}
	h := hmac.New(sha256.New, []byte(clusterID))
	h.Write([]byte(s.Name + "\x00" + s.Value))
	return "digest " + hex.EncodeToString(h.Sum(nil)[:digestBytes])
}

// SetSettings replaces Config.Settings.
func (n *Node) SetSettings(settings []Setting) {
	n.settings.Store(&settings)
	for _, g := range n.groups {
		ring(g.changed)
	}
}

// Settings returns the settings in force.
func (n *Node) Settings() []Setting { return *n.settings.Load() }

// meta returns what the node tells the others about itself.
func (n *Node) meta(clusterID string) map[string]string {
	m := map[string]string{metaClient: n.cfg.ClientAddr}
	if n.cfg.ClusterAddr != "" {
		m[metaCluster] = n.cfg.ClusterAddr
	}
	for _, s := range n.Settings() {
		if v := s.told(clusterID); v != "" {
			m[metaSetting+s.Name] = v
		}
	}
	return m
}

// Difference is a parameter with different values on different nodes.
type Difference struct {
	Name   string
	Values map[string]string // by node
}

// String returns the values in the order of the nodes:
func (d Difference) String() string {
	var values []string
	for _, id := range slices.Sorted(maps.Keys(d.Values)) {
		values = append(values, id+" "+d.Values[id])
	}
	return d.Name + ": " + strings.Join(values, ", ")
}

// Differences returns the settings that differ between members, by name, as the members
// last reported them.
func Differences(s *raftlog.Status) []Difference {
	values := make(map[string]map[string]string)
	for i := range s.Members {
		m := &s.Members[i]
		for key, value := range m.Meta {
			name, ok := strings.CutPrefix(key, metaSetting)
			if !ok {
				continue
			}
			if values[name] == nil {
				values[name] = make(map[string]string)
			}
			values[name][m.ID] = value
		}
	}
	var list []Difference
	for _, name := range slices.Sorted(maps.Keys(values)) {
		distinct := slices.Compact(slices.Sorted(maps.Values(values[name])))
		if len(distinct) > 1 {
			list = append(list, Difference{name, values[name]})
		}
	}
	return list
}

// differing is what has been logged about settings, by name.
type differing map[string]string

// check logs each difference once when it begins and once when it ends.
func (d differing) check(log *slog.Logger, differences []Difference) {
	over := maps.Clone(d)
	for _, now := range differences {
		delete(over, now.Name)
		if text := now.String(); d[now.Name] != text {
			d[now.Name] = text
			log.Warn("nodes are configured differently", "values", text)
		}
	}
	for name := range over {
		delete(d, name)
		log.Info("nodes are configured alike again", "parameter", name)
	}
}
