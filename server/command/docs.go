package command

import (
	"math/bits"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

func (t *Table) WriteInfos(w *resp.Writer) {
	w.Array(len(t.list))
	for _, cmd := range t.list {
		cmd.WriteInfo(w, true)
	}
}

// ByFullName finds "client" and "client|list".
func (t *Table) ByFullName(name []byte) *Spec {
	first, second, isSub := strings.Cut(string(name), "|")
	cmd := lookup(t.byName, []byte(first))
	if cmd == nil || !isSub {
		return cmd
	}
	return lookup(cmd.bySub, []byte(second))
}

// WriteInfo replies a command's entry of COMMAND INFO: name, arity, flags,
// first key, last key, step, ACL categories, tips, key specifications,
// subcommands, none of them if subs is false.
func (cmd *Spec) WriteInfo(w *resp.Writer, subs bool) {
	w.Array(10)
	w.BulkString(cmd.Full)
	w.Int(int64(cmd.Arity))
	flags := cmd.Flags
	w.Set(bits.OnesCount32(uint32(flags & publicFlags)))
	for _, f := range flagNames {
		if flags&f.flag != 0 {
			w.Simple(f.name)
		}
	}
	w.Int(int64(cmd.Keys.First))
	w.Int(int64(cmd.Keys.Last))
	w.Int(int64(cmd.Keys.Step))
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

// writeTips replies Redis's tips for clients: what Headgate adds tells which
// node of a cluster answers.
func (cmd *Spec) writeTips(w *resp.Writer) {
	if cmd.Flags&Leader == 0 {
		w.Array(0)
		return
	}
	w.Array(1)
	w.BulkString("answered_by:leader")
}

// publicFlags are those that flagNames names.
const publicFlags = Immediate - 1

// writeKeySpecs replies Redis 7's description of where the keys are.
func (cmd *Spec) writeKeySpecs(w *resp.Writer) {
	k := cmd.Keys
	if !cmd.HasKeys() {
		w.Array(0)
		return
	}
	access := []string{"RO", "ACCESS"}
	if cmd.Flags&Write != 0 {
		access = []string{"RW", "ACCESS", "UPDATE"}
	}
	if k.Find != nil {
		access = append(access, "incomplete")
	}
	w.Array(1)
	w.Map(3)
	w.BulkString("flags")
	w.Set(len(access))
	for _, a := range access {
		w.Simple(a)
	}
	w.BulkString("begin_search")
	w.Map(2)
	w.BulkString("type")
	w.BulkString("index")
	w.BulkString("spec")
	w.Map(1)
	w.BulkString("index")
	w.Int(int64(max(k.First, 1)))
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

// sinceVersion is the version of Headgate that brought the commands there are.
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
