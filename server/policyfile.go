package server

import (
	"context"
	"fmt"

	"github.com/headgate-io/headgate/resp"
)

// PolicyFile is the reply of the cluster to a node that offers its file of policies.
type PolicyFile struct {
	// Loaded reports that the offer has put the text into force. Changed is then the number
	// of policies, attributes and lists that have changed.
	Loaded  bool
	Changed int64
	// InForce reports that the text is in force. Path and Node name the file that is in
	// force, and the node that offered it.
	InForce    bool
	Path, Node string
}

// OfferPolicies offers the text of a node's file of policies to the cluster, which loads
// the file if it is new. From then on, the server logs a warning when another node's file
// replaces this file. After an error, the offer has failed or its outcome is unknown; the
// caller can repeat it.
func (s *Server) OfferPolicies(ctx context.Context, node, path string, text []byte) (PolicyFile, error) {
	reply, err := s.caller.Do(ctx, []byte("RL.POLICY"), []byte("FILE"), []byte(node), []byte(path), text)
	switch {
	case err != nil:
		return PolicyFile{}, err
	case reply.Type == '-':
		return PolicyFile{}, ReplyError(reply.Str)
	}
	s.policies.Own(path, text)
	return readPolicyFile(reply)
}

// readPolicyFile reads the reply of RL.POLICY FILE.
func readPolicyFile(reply resp.Reply) (f PolicyFile, err error) {
	for i := 0; i+1 < len(reply.Elems); i += 2 {
		switch value := reply.Elems[i+1]; reply.Elems[i].Str {
		case "loaded":
			f.Loaded = value.Int == 1
		case "in_force":
			f.InForce = value.Int == 1
		case "file":
			f.Path = value.Str
		case "node":
			f.Node = value.Str
		case "changed":
			f.Changed = value.Int
		}
	}
	if f.Node == "" {
		return f, fmt.Errorf("read the reply to a file of policies: %v", reply)
	}
	return f, nil
}
