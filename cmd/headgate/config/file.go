package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// setFile sets the parameters in a YAML file. The file is one mapping of names to scalars.
// setFile uses the text of each scalar as it is written, so that `no` stays the word no and
// `0700` keeps its digits.
func (l *Loaded) setFile(name string, data []byte) []error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF): // the file has only comments
		return nil
	case err != nil:
		return []error{fmt.Errorf("%s: %w", name, err)}
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return []error{fmt.Errorf("%s: more than one YAML document", name)}
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("%s:%d: want lines of the form name: value", name, root.Line)}
	}

	var errs []error
	seen := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s:%d", name, key.Line)
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		p := find(key.Value)
		switch first, twice := seen[key.Value]; {
		case p == nil:
			errs = append(errs, fmt.Errorf("%s: %s: unknown key%s", at, policy.Clip(key.Value), cmp.Or(policy.Nearest(key.Value, names()), seeHelp)))
		case twice:
			errs = append(errs, fmt.Errorf("%s: %s: set twice, first on line %d", at, p.Name, first))
		case value.Kind != yaml.ScalarNode:
			errs = append(errs, fmt.Errorf("%s: %s: want one value, not a list or a mapping", at, p.Name))
		case value.Tag == "!!null":
			errs = append(errs, fmt.Errorf(`%s: %s: no value; write "" for an empty one`, at, p.Name))
		default:
			errs = append(errs, l.set(p, value.Value, at))
		}
		seen[key.Value] = key.Line
	}
	return errs
}
