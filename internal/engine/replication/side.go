package replication

// This part lets a type have a side that other packages of this module use and that its
// own users do not see.
//
// The type embeds an Of by an unexported name. That gives it a method that only this package
// can call, and that no documentation shows:
//
//	package weir
//
//	type shown = friend.Of[*side]
//
//	type Engine struct {
//		shown // friend.Make(&side{...})
//	}
//
//	package replication
//
//	type Engine interface { Cut(...) }
//
//	func Of[S Engine](e friend.With[S]) Engine { return friend.Side(e) }
//
// So replication.Of(engine) is checked when it is compiled: *side has what
// replication.Engine asks for, and nothing but a *weir.Engine fits. It costs a load.

// SideOf is embedded by a type that has a side S.
type SideOf[S any] struct{ side S }

// MakeSide returns what to embed.
func MakeSide[S any](side S) SideOf[S] { return SideOf[S]{side} }

func (o *SideOf[S]) friendSide() S { return o.side }

// With is a pointer to any type that embeds an Of[S].
type With[S any] interface{ friendSide() S }

// Side is the side of a type that embeds an Of[S].
func Side[S any](of With[S]) S { return of.friendSide() }
