/** What the stand-in calls itself. */

/** The server version whose mongos it imitates: clients choose their commands by it. */
export const serverVersion = "6.0.5";

export const standIn = "alfabravo stand-in for mongos, routes to real mongod; for tests and trials";
