package command

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

func (t *Table) WriteInfos(w *resp.Writer) {
	w.Array(len(t.list))
	for _, cmd := range t.list {
		cmd.WriteInfo(w, true)
	}
}

// ByFullName returns the command with a full name such as "client" or "client|list", or
// nil.
func (t *Table) ByFullName(name []byte) *Spec {
	first, second, isSub := strings.Cut(string(name), "|")
	cmd := lookup(t.byName, []byte(first))
	if cmd == nil || !isSub {
		return cmd
	}
	return lookup(cmd.bySub, []byte(second))
}

// WriteInfo replies a command's entry of COMMAND INFO: name, arity, flags, first key, last
// key, step, ACL categories, tips, key specifications and, if subs is set, subcommands.
func (cmd *Spec) WriteInfo(w *resp.Writer, subs bool) {
	w.Array(10)
	w.BulkString(cmd.Full)
	w.Int(int64(cmd.Arity))
	flags := cmd.Flags
	// If the first key has a fixed place, as in RL.LIMIT, clients can find the node by that
	// key alone. So such a command does not have the flag movablekeys. For commands with
	// this flag redis-py calls COMMAND GETKEYS before each call, always on the same node,
	// and fails if that node is dead.
	movable := ""
	if cmd.Keys.movable() && cmd.Keys.First == 0 {
		movable = "movablekeys"
	}
	w.Set(bits.OnesCount32(uint32(flags&publicFlags)) + int(Truth(movable != "")))
	for _, f := range flagNames {
		if flags&f.flag != 0 {
			w.Simple(f.name)
		}
	}
	if movable != "" {
		w.Simple(movable)
	}
	slots := cmd.Slots()
	w.Int(int64(slots.First))
	w.Int(int64(slots.Last))
	w.Int(int64(slots.Step))
	w.Set(bits.OnesCount32(uint32(cmd.Categories)))
	for i, name := range categoryNames {
		if cmd.Categories&(1<<i) != 0 {
			w.Simple("@" + name)
		}
	}
	cmd.writeTips(w)
	cmd.writeKeySpecs(w)
	if !subs {
		w.Array(0)
		return
	}
	w.Array(len(cmd.Subs))
	for i := range cmd.Subs {
		cmd.Subs[i].WriteInfo(w, true)
	}
}

// writeTips replies Redis's tips for clients of a cluster, and a tip of Headgate's own,
// which says that the leader answers.
func (cmd *Spec) writeTips(w *resp.Writer) {
	tips := policyTips[cmd.Full]
	if cmd.Flags&Leader != 0 {
		tips = append(slices.Clip(tips), "answered_by:leader")
	}
	w.Array(len(tips))
	for _, tip := range tips {
		w.BulkString(tip)
	}
}

// policyTips say to which nodes of a cluster a client sends a command, and how the client
// combines several replies. They are Redis 7's tips:
// https://redis.io/docs/latest/develop/reference/command-tips/
var policyTips = func() map[string][]string {
	tips := make(map[string][]string)
	for _, p := range []struct{ request, response, commands string }{
		{"all_nodes", "all_succeeded", "config|set latency|reset script|flush script|load slowlog|reset"},
		{"all_nodes", "agg_sum", "slowlog|len"},
		{"all_nodes", "special", "latency|doctor latency|latest latency|history latency|graph latency|histogram"},
		{"all_nodes", "", "slowlog|get"},
		{"all_shards", "all_succeeded", "flushall flushdb function|flush function|load memory|purge ping"},
		{"all_shards", "agg_sum", "dbsize"},
		{"all_shards", "agg_min", "wait"},
		{"all_shards", "agg_logical_and", "script|exists"},
		{"all_shards", "one_succeeded", "script|kill"},
		{"all_shards", "special", "info memory|doctor memory|malloc-stats memory|stats"},
		{"all_shards", "", "keys randomkey"},
		{"multi_shard", "all_succeeded", "mset"},
		{"multi_shard", "agg_min", "msetnx"},
		{"multi_shard", "agg_sum", "del exists touch unlink"},
		{"multi_shard", "", "mget"},
		{"special", "", "scan"},
	} {
		list := []string{"request_policy:" + p.request}
		if p.response != "" {
			list = append(list, "response_policy:"+p.response)
		}
		for _, name := range strings.Fields(p.commands) {
			tips[name] = list
		}
	}
	return tips
}()

// publicFlags are the flags in flagNames.
const publicFlags = Immediate - 1

// writeKeySpecs replies Redis 7's description of the keys' positions.
func (cmd *Spec) writeKeySpecs(w *resp.Writer) {
	k := cmd.Slots()
	if k.First == 0 && !k.movable() {
		w.Array(0)
		return
	}
	access := cmd.access()
	if k.Find != nil {
		access = append(access, "incomplete")
	}
	w.Array(1)
	w.Map(3)
	w.BulkString("flags")
	writeFlags(w, access)
	w.BulkString("begin_search")
	w.Map(2)
	w.BulkString("type")
	w.BulkString("index")
	w.BulkString("spec")
	w.Map(1)
	w.BulkString("index")
	w.Int(int64(max(k.First, k.Count, 1)))
	if k.Count != 0 {
		w.BulkString("find_keys")
		w.Map(2)
		w.BulkString("type")
		w.BulkString("keynum")
		w.BulkString("spec")
		w.Map(3)
		w.BulkString("keynumidx")
		w.Int(0)
		w.BulkString("firstkey")
		w.Int(1)
		w.BulkString("keystep")
		w.Int(1)
		return
	}
	last := k.Last
	if last > 0 {
		last -= k.First
	}
	w.BulkString("find_keys")
	w.Map(2)
	w.BulkString("type")
	w.BulkString("range")
	w.BulkString("spec")
	w.Map(3)
	w.BulkString("lastkey")
	w.Int(int64(last))
	w.BulkString("keystep")
	w.Int(int64(max(k.Step, 1)))
	w.BulkString("limit")
	w.Int(0)
}

// access returns what the command does with its keys, in Redis's words.
func (cmd *Spec) access() []string {
	switch {
	case cmd.Channels.First != 0:
		return []string{"not_key"}
	case cmd.Flags&Write != 0:
		return []string{"RW", "access", "update"}
	}
	return []string{"RO", "access"}
}

// WriteAccess replies what the command does with its keys.
func (cmd *Spec) WriteAccess(w *resp.Writer) { writeFlags(w, cmd.access()) }

func writeFlags(w *resp.Writer, flags []string) {
	w.Set(len(flags))
	for _, f := range flags {
		w.Simple(f)
	}
}

// sinceVersion is the version of Headgate that introduced the commands.
const sinceVersion = "1.0.0"

func (cmd *Spec) WriteDocs(w *resp.Writer) {
	fields := 4
	if len(cmd.docs) > 0 {
		fields++
	}
	if len(cmd.Subs) > 0 {
		fields++
	}
	w.Map(fields)
	for _, f := range [][2]string{{"summary", cmd.Summary}, {"since", sinceVersion}, {"group", cmd.Group}, {"complexity", cmd.Complexity}} {
		w.BulkString(f[0])
		w.BulkString(f[1])
	}
	if len(cmd.docs) > 0 {
		w.BulkString("arguments")
		w.Array(len(cmd.docs))
		for i := range cmd.docs {
			cmd.docs[i].write(w)
		}
	}
	if len(cmd.Subs) > 0 {
		w.BulkString("subcommands")
		w.Map(len(cmd.Subs))
		for i := range cmd.Subs {
			w.BulkString(cmd.Subs[i].Full)
			cmd.Subs[i].WriteDocs(w)
		}
	}
}
