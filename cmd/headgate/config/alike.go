package config

// Setting is a parameter with the value that a node was given.
type Setting struct {
	Name, Value string
	Secret      bool
}

// Alike lists the parameters that should have the same value on all nodes of a
// cluster, as configured. A share of the memory stays a share, and the word
// default of on-failure stays a word.
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
