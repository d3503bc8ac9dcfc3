// Command example serves pages: each user may have 100 per second, on all machines together.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/clients/go/goredis"
	"github.com/headgate-io/headgate/clients/go/httplimit"
)

func main() {
	nodes := strings.Split(os.Getenv("HEADGATE"), ",") // host:port of each node
	client := goredis.New(nodes, nil, headgate.Options{Processes: 4})

	limited, err := httplimit.New(client, httplimit.Options{
		Name:  "pages",
		Limit: headgate.PerSecond(100),
		Key:   func(r *http.Request) string { return r.Header.Get("X-User") }, // without it: the client's address
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "a page")
	})))

	// Calls of other kinds ask the client.
	http.HandleFunc("/export", func(w http.ResponseWriter, r *http.Request) {
		d, err := client.Allow(r.Context(), "exports", headgate.PerMinute(60), 1)
		switch {
		case err != nil: // our mistake, or the caller has gone; never an outage
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case !d.Allowed:
			http.Error(w, "come back in "+d.RetryAfter.String(), http.StatusTooManyRequests)
		default:
			fmt.Fprintln(w, "an export, decided by", d.Source)
		}
	})

	server := &http.Server{Addr: os.Getenv("LISTEN")}
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	go func() {
		<-stop.Done()
		_ = server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	_ = client.Close(context.Background()) // what it holds goes back to the limits
}
