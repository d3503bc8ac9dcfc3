package load

import (
	"fmt"
	"strings"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/resp"
)

// checkArguments is the command of a check.
func checkArguments(c *history.Call, who *history.Caller) []string {
	args := append([]string{"RL.CHECK", who.Policy}, attributes(who)...)
	args = append(args, "COST", number(c.Cost))
	if who.Option != "" {
		args = append(args, who.Option)
	}
	return args
}

// attributes are those of a caller, as commands about policies take them.
func attributes(who *history.Caller) (args []string) {
	if who.User != "" {
		args = append(args, "user", who.User)
	}
	if who.Team != "" {
		args = append(args, "team", who.Team)
	}
	return args
}

// checked fills in what the reply to a check says beside its verdict.
func checked(c *history.Call, r *resp.Reply) (allowed, remaining int64, ok bool) {
	field := func(name string) (n int64) {
		f := r.Field(name)
		if ok = ok && f != nil && f.Type == ':'; ok {
			n = f.Int
		}
		return n
	}
	ok = true
	allowed, remaining = field("allowed"), field("remaining")
	c.Limit, c.Version = int32(min(field("limit"), 1<<31-1)), uint32(field("version"))
	name, limits := r.Field("name"), r.Field("limits")
	if !ok || name == nil || limits == nil {
		return 0, 0, false
	}
	for i := range limits.Elems {
		if f := limits.Elems[i].Field("name"); f != nil && f.Str == name.Str {
			c.Binding = uint8(i + 1)
		}
	}
	return allowed, remaining, c.Binding > 0
}

// policyText is the text of a policy with some amounts. mark is what no other text
// of it has.
func policyText(p *history.Policy, amounts []int32, mark int) string {
	var limits []string
	for i, l := range p.Limits {
		text := fmt.Sprintf("%s: {algorithm: %s, rate: %s", l.Name, l.Algorithm, rateText(amounts[i], l))
		if l.By != "" {
			text += ", by: " + l.By
		}
		if l.Algorithm == history.Fixed || l.Algorithm == history.Sliding {
			text += ", align: first"
		}
		limits = append(limits, text+"}")
	}
	durability := ""
	if p.Sync {
		durability = "durability: sync, "
	}
	return fmt.Sprintf("{%slists: {edit: [e%d]}, limits: {%s}}", durability, mark, strings.Join(limits, ", "))
}

func rateText(amount int32, l history.PolicyLimit) string {
	return fmt.Sprintf("%d/%s", amount, millis(l.Period))
}

// CounterKey is the key of a limit's counter for a caller.
func CounterKey(p *history.Policy, l history.PolicyLimit, who *history.Caller) string {
	key := "@" + p.Name + ":" + l.Name
	if l.By != "" {
		key += ";" + l.By + "=" + who.Of(l.By)
	}
	return key
}
