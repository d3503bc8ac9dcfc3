package member

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"io"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/stable"
)

// Voter is a node of the cluster after a recovery.
type Voter struct {
	ID   string `json:"id"`
	Addr string `json:"addr"`
}

// Recover makes the data in s the data of a member of a new cluster, which the voters form.
// It returns the new membership. All voters compute the same ids, even if the recovery is
// repeated before the node has run again.
func Recover(s raft.StableStore, node string, voters []Voter) (raft.Configuration, error) {
	var conf raft.Configuration
	owner, err := stable.Text(s, nodeKey)
	if err != nil {
		return conf, err
	}
	if owner != "" && owner != node {
		return conf, fmt.Errorf("%w: it belongs to node %s, not to %s", ErrOtherNode, owner, node)
	}
	before, err := stable.Text(s, beforeKey)
	if err == nil && before == "" {
		before, err = stable.Text(s, clusterKey)
	}
	if err != nil {
		return conf, err
	}
	h := sha256.New()
	io.WriteString(h, before)
	for _, v := range slices.SortedFunc(slices.Values(voters), func(a, b Voter) int { return cmp.Compare(a.ID, b.ID) }) {
		fmt.Fprintf(h, " %s=%s", v.ID, v.Addr)
	}
	cluster := base32.StdEncoding.EncodeToString(h.Sum(nil)[:20])
	for _, v := range voters {
		id := ServerID(v.ID, recoveredData(cluster, v.ID))
		conf.Servers = append(conf.Servers, raft.Server{Suffrage: raft.Voter, ID: id, Address: raft.ServerAddress(v.Addr)})
	}
	if err := stable.SetText(s, beforeKey, before); err != nil {
		return conf, err
	}
	if err := stable.SetText(s, dataKey, recoveredData(cluster, node)); err != nil {
		return conf, err
	}
	return conf, stable.SetText(s, clusterKey, cluster)
}

// recoveredData returns the id of a voter's data after a recovery.
func recoveredData(cluster, node string) string {
	h := sha256.Sum256([]byte(cluster + " " + node))
	return base32.StdEncoding.EncodeToString(h[:15])
}
