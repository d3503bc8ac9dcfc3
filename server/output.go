package server

import "github.com/headgate-io/headgate/resp"

// parts is output of a connection that waits behind other output: long replies, in
// pieces that are not copied again.
type parts struct {
	all  [][]byte
	size int // bytes
	held int // what they take
}

// add adds pieces, which are the list's own from here on.
func (p *parts) add(pieces ...[]byte) {
	for _, b := range pieces {
		if len(b) > 0 {
			p.all = append(p.all, b)
			p.size += len(b)
			p.held += cap(b)
		}
	}
}

// free drops all pieces.
func (p *parts) free() {
	for _, b := range p.all {
		resp.FreePart(b)
	}
	*p = parts{}
}

// first takes the first piece, or returns nil.
func (p *parts) first() []byte {
	if len(p.all) == 0 {
		return nil
	}
	b := p.all[0]
	p.all[0] = nil
	p.all = p.all[1:]
	p.size -= len(b)
	p.held -= cap(b)
	return b
}
