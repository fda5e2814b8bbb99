"""Commands and files of worlds that are reached by the pipes of a program: `docker exec -i`, `ssh`."""
