module github.com/headgate-io/headgate/clients/compat/sdk

go 1.26.0

require (
	github.com/headgate-io/headgate v0.0.0
	github.com/headgate-io/headgate/clients/go v0.0.0
	github.com/headgate-io/headgate/clients/go/goredis v0.0.0
	github.com/headgate-io/headgate/clients/go/rueidis v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	github.com/headgate-io/headgate => ../../..
	github.com/headgate-io/headgate/clients/go => ../../go
	github.com/headgate-io/headgate/clients/go/goredis => ../../go/goredis
	github.com/headgate-io/headgate/clients/go/grpclimit => ../../go/grpclimit
	github.com/headgate-io/headgate/clients/go/rueidis => ../../go/rueidis
)
