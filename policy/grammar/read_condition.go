package grammar

import (
	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// conditions reads the entries of deny and allow.
func (r *reader) conditions(n *yaml.Node) (defs []policy.ConditionDef) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "want a list of conditions, [{ip: 10.0.0.0/8}]%s", found(n))
		return nil
	}
	for i, item := range n.Content {
		r.in(indexed(i), func() { defs = append(defs, r.condition(item)) })
	}
	return defs
}

// condition reads a mapping from attributes to the values that they must have.
func (r *reader) condition(n *yaml.Node) (def policy.ConditionDef) {
	if n.Kind == yaml.ScalarNode {
		r.fail(n, laterExpression)
		return nil
	}
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.fail(n, "a condition asks for at least one attribute")
	}
	r.pairs(n, "a mapping of attributes to values", func(key, value *yaml.Node) {
		if err := policy.CheckAttributeName(key.Value); err != nil {
			r.fail(key, "%s", err)
			return
		}
		c := policy.ClauseDef{Attribute: key.Value, Place: r.at(value)}
		if value.Kind != yaml.MappingNode {
			r.clauseValues(value, &c)
		} else if len(value.Content) != 2 {
			r.fail(value, "want one of not, list and present")
		} else {
			readMap(r, value, "values", clauseEntries, &c)
		}
		def = append(def, c)
	})
	return def
}

// clauseValues reads values, or the name of a list of them.
func (r *reader) clauseValues(n *yaml.Node, c *policy.ClauseDef) {
	if n.Kind == yaml.MappingNode {
		if len(n.Content) != 2 {
			r.fail(n, "want values, or {list: name}")
			return
		}
		readMap(r, n, "{list: name}", listEntries, c)
		return
	}
	if items, ok := r.items(n, "values"); ok {
		c.Values = r.texts(items)
	}
}

// presence reads whether an attribute must have a value or must have none.
func (r *reader) presence(n *yaml.Node, c *policy.ClauseDef) {
	s, ok := r.scalar(n, "true or false")
	switch {
	case !ok:
	case s == "true":
		c.Test = policy.Present
	case s == "false":
		c.Test = policy.Absent
	default:
		r.fail(n, "%q: want true or false", policy.Clip(s))
	}
}
