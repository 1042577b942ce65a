/** Open cursors of the router by id. */
export class CursorStore {}
