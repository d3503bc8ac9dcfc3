package checks

// hideInCheck is hide for arguments that may have options of RL.CHECK in between.
func (c *Checker) hideInCheck(name []byte, args [][]byte, from int, at []int) []int {
	for i := from; i < len(args); {
		a := checkArgs{holds: true, names: true}
		n, err := a.option(args[i:])
		switch {
		case n > 0:
			i += n
		case err != nil: // an option without its argument, or one that is not supported
			i++
		default:
			at = c.book.Hide(name, args[:min(len(args), i+2)], i, at)
			i += 2
		}
	}
	return at
}

// checkSecrets are the arguments of RL.CHECK that must not be shown.
func (c *Checker) checkSecrets(args [][]byte, at []int) []int {
	return c.hideInCheck(args[1], args, 2, at)
}

// commitSecrets are those of RL.COMMIT, which may be given what was reserved.
func (c *Checker) commitSecrets(args [][]byte, at []int) []int {
	name, _, _ := cutHold(args[1])
	return c.book.Hide(name, args, 2, at)
}

// explainSecrets are those of RL.EXPLAIN.
func (c *Checker) explainSecrets(args [][]byte, at []int) []int {
	if len(args) < 3 {
		return at
	}
	return c.hideInCheck(args[2], args, 3, at)
}
