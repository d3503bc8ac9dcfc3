package config

// Setting is a parameter with the value that a node was given.
type Setting struct {
	Name, Value string
	Secret      bool
}

// Alike lists the parameters that all nodes of a cluster should have the same
// value of, as configured: maxmemory as a share of the memory is that share,
// and on-failure is not what the default stands for.
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
