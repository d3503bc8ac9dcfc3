package checks

// hideInCheck is Book.Hide for arguments with options of RL.CHECK in between.
func (c *Checker) hideInCheck(name []byte, args [][]byte, from int, at []int) []int {
	return c.hide(name, args, from, at, checkArgs{holds: true, names: true})
}

// hide is hideInCheck for the options of as.
func (c *Checker) hide(name []byte, args [][]byte, from int, at []int, as checkArgs) []int {
	for i := from; i < len(args); {
		a := as
		n, err := a.option(args[i:])
		switch {
		case n > 0:
			i += n
		case err != nil: // an option that has no argument or is not supported
			i++
		default:
			at = c.book.Hide(name, args[:min(len(args), i+2)], i, at)
			i += 2
		}
	}
	return at
}

// checkSecrets returns the arguments of RL.CHECK that must not be shown.
func (c *Checker) checkSecrets(args [][]byte, at []int) []int {
	return c.hideInCheck(args[1], args, 2, at)
}

// commitSecrets is checkSecrets for RL.COMMIT, which may repeat the attributes of the hold.
func (c *Checker) commitSecrets(args [][]byte, at []int) []int {
	name, _, _ := cutHold(args[1])
	return c.book.Hide(name, args, 2, at)
}

// explainSecrets is checkSecrets for RL.EXPLAIN.
func (c *Checker) explainSecrets(args [][]byte, at []int) []int {
	if len(args) < 3 {
		return at
	}
	return c.hideInCheck(args[2], args, 3, at)
}
