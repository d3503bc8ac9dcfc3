package policy

// Tiers returns the names of the limit's tiers, in the order of the text; nil if
// it has none. It must not be changed.
func (l *Limit) Tiers() []string {
	if l.tiers == nil {
		return nil
	}
	return l.tiers.names
}
