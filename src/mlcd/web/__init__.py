"""The service: mlcd for a team, over HTTP. `mlcd serve` starts it (needs the extra `mlcd[serve]`).

    app.py            create_app(Site): the routers, middleware and error handlers put together
    site.py           Site: what every handler has at hand (client, settings, vault, uploads, hub, limits)
    settings.py       ServeSettings: host, port, workers, accounts, limits …
    server.py         options of the command → ServeSettings; runs uvicorn, in one process or several; prints the setup token
    monitoring.py     /health, and /metrics for Prometheus
    takeover.py       takes over jobs whose controllers are gone, on start and now and then
    cleanup.py        clears away unused uploads, old answers and expired sessions

    auth.py           SignedIn, Editor, Admin: who asks, as dependencies of a handler; CSRF and roles are checked here
    passwords.py      argon2, tokens and their hashes
    sessions.py       signing in and out, signed cookies
    oidc.py           single sign-on, by configuration
    idempotency.py    idempotency keys: the same key and body, the same answer and never a second job
    submission.py     a job that came over the wire → LoadedJob; no path of this computer is taken from it
    clouds.py         which clouds someone may use here, with which options; who runs programs on the server itself
    uploads.py        code and data that were sent, content-addressed; archives.py refuses bad archives,
                      untar.py unpacks tars in a process with limits
    streams.py        server-sent events: one poller per followed thing, any number of readers
    vault.py          secrets sealed at rest
    faults.py         MlcdError → {"error": {"type", "message", "hint", "exit_code"}} with its status
    serialize.py      nouns → JSON that reads back the same
    headers.py        security headers (CSP with a nonce in request.state.nonce), hosts, sizes of bodies
    rate_limit.py     rate limits
    paths.py          takes paths of the server out of every answer, where there are accounts

    api/              /api/v1: one router per file; each handler is a plain function run in a thread
    pages/            HTML: pages/__init__.py has `routers()`, which create_app includes

Every handler that concerns a job gets it through `site.job(actor, reference)`: of other people's jobs it says
404 and nothing else. Handlers are plain functions (FastAPI runs them in threads); only streams and uploads
are async. No handler opens the database by itself: all goes through Client and its store.

A page gets its data as the API does: take `SiteOf` and `SignedIn` and call `site.client`. Scripts that change
something send the header `X-CSRF-Token` with `actor.csrf` (empty, and not needed, without accounts).
Live parts listen to /api/v1/jobs/{id}/stream:

    event: event   id: 17   data: {Event}                  each once, in order; Last-Event-ID goes on after it
    event: view             data: {JobView, no offers}     whenever something in it changed
    event: over             data: {}                       the job rests; nothing follows until it is resumed
"""
