package config

// Setting is a parameter with the value that a node is configured with.
type Setting struct {
	Name, Value string
	Secret      bool
}

// Alike returns the parameters that should have the same value on all nodes of a cluster,
// in the configured form. So a percentage of the memory stays a percentage, and the default
// of on-failure stays the word default.
func (c *Config) Alike() []Setting {
	var list []Setting
	for _, p := range Params {
		if !p.Alike {
			continue
		}
		list = append(list, Setting{Name: p.Name, Value: p.Value(c).String(), Secret: p.Secret})
	}
	return list
}
