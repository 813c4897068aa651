// Command weir counts hits: as a server (weir serve), as its client (weir hit,
// count, rate, top, series), and out of access logs (weir replay).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // quotas by the calendar, on machines without time zones
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to finish; the second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, system(), os.Args[1:]))
}
