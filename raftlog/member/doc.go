// Package member says who belongs to a group of nodes.
//
// A member is a node with its data: a node that has lost its data is another
// member, see ServerID.
package member
