module github.com/headgate-io/headgate/clients/go

go 1.25.0
