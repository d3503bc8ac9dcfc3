// Command example admits 100 units per second of a user's key, by go-redis.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"

	headgate "github.com/headgate-io/headgate/clients/go"
)

func main() {
	ctx := context.Background()
	conn := redis.NewClient(&redis.Options{
		Addr:                  os.Getenv("HEADGATE"), // host:port
		MaxRetries:            -1,                    // a command that is sent again is charged again
		ContextTimeoutEnabled: true,
	})
	defer conn.Close()
	client := headgate.New(headgate.DoerFunc(func(ctx context.Context, args ...any) (any, error) {
		return conn.Do(ctx, args...).Result()
	}), headgate.Options{})
	defer client.Close(ctx) // what it holds goes back to the limits

	allowed, local := 0, 0
	for range 150 {
		d, err := client.Allow(ctx, "user:42", headgate.PerSecond(100), 1)
		if err != nil {
			log.Fatal(err)
		}
		if d.Allowed {
			allowed++
		}
		if d.Source != headgate.Server {
			local++
		}
	}
	fmt.Println("at least 100 allowed:", allowed >= 100, "- most without the server:", local > 75)
}
