package data

import (
	"bytes"
	"errors"
	"math"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of LPOS. Their texts begin with the RESP code that clients see.
var (
	errRankZero = errors.New("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... " +
		"or use negative to start from the end of the list")
	errCountNegative  = errors.New("ERR COUNT can't be negative")
	errMaxLenNegative = errors.New("ERR MAXLEN can't be negative")
)

func listPositionCommands() []command.Spec {
	return []command.Spec{
		listCommand("lpos", -3, command.Readonly, allOfList, "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
			"Returns the index of matching elements in a list.", lpos),
	}
}

// positions holds the options of LPOS: the rank of the first match to reply, counted from
// either end; how many matches to reply; and how many elements to compare.
type positions struct {
	rank      int64
	backwards bool
	count     int64 // 0 means all
	list      bool  // COUNT was given: the reply is a list
	most      int64 // 0 means all
}

func (p *positions) parse(args [][]byte) (err error) {
	p.rank, p.count = 1, 1
	for ; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			return command.ErrSyntax
		}
		switch {
		case command.EqualFold(args[0], "rank"):
			if p.rank, err = parseInt(args[1]); err != nil {
				return err
			}
			if p.rank == 0 {
				return errRankZero
			}
		case command.EqualFold(args[0], "count"):
			if p.count, err = parsePositive(args[1]); err != nil {
				return errCountNegative
			}
			p.list = true
		case command.EqualFold(args[0], "maxlen"):
			if p.most, err = parsePositive(args[1]); err != nil {
				return errMaxLenNegative
			}
		default:
			return command.ErrSyntax
		}
	}
	switch {
	case p.rank == math.MinInt64: // Redis refuses it too, because it cannot negate it
		p.rank, p.backwards = 1, true
	case p.rank < 0:
		p.rank, p.backwards = -p.rank, true
	}
	return nil
}

// find returns the indexes of the elements of l that equal element.
func (p *positions) find(l *packed.List, element []byte) (found []int) {
	n := l.Len()
	if p.most > 0 {
		n = int(min(p.most, int64(n)))
	}
	elements := l.Range(0, n)
	if p.backwards {
		elements = l.Backward(l.Len()-n, l.Len())
	}
	rank := int64(0)
	for i, e := range elements {
		if !bytes.Equal(e, element) {
			continue
		}
		if rank++; rank < p.rank {
			continue
		}
		found = append(found, i)
		if int64(len(found)) == p.count {
			break
		}
	}
	return found
}

func lpos(call *command.Call) {
	var p positions
	if err := p.parse(call.Args[3:]); err != nil {
		call.Error(err.Error())
		return
	}
	r, ok := readSome(call, call.Args[1], algo.List, walking)
	if !ok {
		return
	}
	l := packed.NewList(r.Buffer)
	found := p.find(&l, call.Args[2])
	r.close()
	switch {
	case p.list:
		call.W.Array(len(found))
		for _, i := range found {
			call.W.Int(int64(i))
		}
	case len(found) > 0:
		call.W.Int(int64(found[0]))
	default:
		call.W.Null()
	}
}
