//go:build tools

// Package engine pins the Pulumi engine so that `go build -mod=readonly` takes exactly these sources.
package engine

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
