package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// grpcRequests ask about a user, streamKey, by as many limits as their index. They are
// encoded once: the generator shares the cores, and must not spend them on messages.
var grpcRequests = func() (list [grpcMost + 1][]byte) {
	q := &rls.RateLimitRequest{Domain: "p"}
	for i := range list {
		b, err := proto.Marshal(q)
		if err != nil {
			panic(err)
		}
		list[i] = b
		q.Descriptors = append(q.Descriptors, &ratelimit.RateLimitDescriptor{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "k" + strconv.Itoa(i), Value: "user" + streamKey}},
		})
	}
	return list
}()

// grpcHoles are the places of users in them.
var grpcHoles = func() (list [grpcMost + 1][]int) {
	for i, b := range grpcRequests {
		list[i] = keyHoles(b)
	}
	return list
}()

// asBytes is a codec whose messages are *[]byte.
type asBytes struct{}

// Name implements encoding.CodecV2.
func (asBytes) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (asBytes) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (asBytes) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// grpcPeer is a server that answers such calls.
type grpcPeer struct {
	p     *process
	label string
	conns []*grpc.ClientConn
}

// dialGRPC connects to a server, and waits until it answers.
func dialGRPC(ctx context.Context, p *process, label, addr string) (*grpcPeer, error) {
	g := &grpcPeer{p: p, label: label}
	for range grpcConnections {
		c, err := grpc.NewClient("passthrough:"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(asBytes{}), grpc.WaitForReady(true)))
		if err != nil {
			return nil, err
		}
		g.conns = append(g.conns, c)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for i := range g.conns {
		if _, err := g.ask(ctx, i, 1, uint64(i)); err != nil {
			g.close()
			return nil, err
		}
	}
	return g, nil
}

func (g *grpcPeer) close() {
	if g == nil {
		return
	}
	for _, c := range g.conns {
		c.Close()
	}
}

// grpcAllowed is how an answer begins that admits a call: with its field 1, the overall
// code.
var grpcAllowed = []byte{1 << 3, byte(rls.RateLimitResponse_OK)}

// ask makes a call on a connection, and returns how long its answer is.
func (g *grpcPeer) ask(ctx context.Context, conn, descriptors int, user uint64) (size int, err error) {
	request := bytes.Clone(grpcRequests[descriptors])
	for _, at := range grpcHoles[descriptors] {
		putKey(request[at:], user)
	}
	var answer []byte
	err = g.conns[conn%grpcConnections].Invoke(ctx, rls.RateLimitService_ShouldRateLimit_FullMethodName, &request, &answer)
	if err == nil && !bytes.HasPrefix(answer, grpcAllowed) {
		err = errors.New("denied")
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", g.label, err)
	}
	return len(answer), err
}
